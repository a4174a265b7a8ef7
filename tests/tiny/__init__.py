"""Small models with random weights, with the tensors and notes of the published ones."""
