"""Networks at the sizes of the papers that introduced them, each beside a PyTorch twin."""
