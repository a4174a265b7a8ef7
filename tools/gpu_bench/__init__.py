"""The figures of a GPU: each row measures some, and survives the failure of the others."""
