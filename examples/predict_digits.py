"""Five lines that load the network of `train_digits.py` in another process, and classify ten digits with it."""

from sklearn.datasets import load_digits

import ocannl as oc

logits = oc.nn.mlp(widths=[64, 10])(oc.tensor(load_digits().data[-10:].astype("float32") / 16, batch_axes=1))
oc.load("digits.safetensors", oc.default_context(), logits)
print(logits.numpy().argmax(axis=1), "of", load_digits().target[-10:])
