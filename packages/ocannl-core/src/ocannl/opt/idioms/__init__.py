"""Recognition of idioms: one-hot gathers, overlapping scatters, softmax and attention."""
