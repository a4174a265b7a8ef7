"""From encoded speech to stable text: pure logic, and the tile chain that feeds it."""
