"""Training runs: folders, checkpoints, recipes, forecasts."""
