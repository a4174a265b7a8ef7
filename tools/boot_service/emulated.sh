# How long things take where the processor is emulated: see emulated.conf.
watchdog=180 patience=1800 look=5
