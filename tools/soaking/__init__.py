"""Audio of days, fed as fast as the machine allows, in parts."""
