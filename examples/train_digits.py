"""Ten lines that train a network on handwritten digits, evaluate it, and save it for `predict_digits.py`.

pip install "ocannl-core[demo]" && python examples/train_digits.py && python examples/predict_digits.py
"""

from sklearn.datasets import load_digits

import ocannl as oc
from ocannl import nn, train

pixels, labels = load_digits(return_X_y=True)
data = train.batches({"x": pixels[:1500].astype("float32") / 16, "label": labels[:1500]}, 50, shuffle=0)
test = data.of({"x": pixels[1500:].astype("float32") / 16, "label": labels[1500:]})
model = nn.mlp(widths=[64, 10])
fitted = train.fit(model, loss=oc.cross_entropy, optimizer=train.adam, data=data, epochs=40)
print(train.evaluate(fitted.ctx, {"accuracy": train.accuracy(fitted.output, data["label"])}, test))
oc.save("digits.safetensors", fitted.ctx, model)
