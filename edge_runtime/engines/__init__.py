"""From a recipe to graphs a device can load: recipes, weights, export, store, pull."""
