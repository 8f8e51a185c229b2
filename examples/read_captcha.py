"""Reads distorted characters in small pictures, with the model of ddddocr.

Without files, characters are drawn by Pillow, turned, crossed by lines, and read back.

pip install --no-deps ddddocr && pip install pillow && python examples/read_captcha.py [picture.png ...]
"""

import runpy
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from shipped_models import ComparedModel, file_of

HEIGHT, WIDTH = 64, 160  # of the pictures that the model reads
TEXTS = ("k7mp", "3xwd", "hn52", "b8rt", "e4ya", "pq6c")


def drawn(word, seed):
    """A picture of the characters of a word, at random angles and heights, with noise."""
    rng = np.random.default_rng(seed)
    font = ImageFont.load_default(40)
    picture = Image.new("L", (WIDTH, HEIGHT), 255)
    for n, character in enumerate(word):
        tile = Image.new("L", (44, 52), 0)
        ImageDraw.Draw(tile).text((8, 0), character, 255, font)
        tile = tile.rotate(rng.uniform(-20, 20), Image.Resampling.BICUBIC)
        picture.paste(0, (6 + 36 * n, int(rng.integers(2, 10))), tile)
    lines = ImageDraw.Draw(picture)
    for _ in range(3):
        lines.line([int(number) for number in rng.integers((0, 0, WIDTH - 20, 0), (20, HEIGHT, WIDTH, HEIGHT))], 120)
    return Image.fromarray(np.clip(np.asarray(picture) + rng.normal(0, 12, (HEIGHT, WIDTH)), 0, 255).astype("uint8"))


def load(ctx=None):
    """The model, and its characters."""
    characters = runpy.run_path(str(file_of("ddddocr", "charsets.py")))["CHARSET_BETA"]
    return ComparedModel(file_of("ddddocr", "common.onnx"), ctx), characters


def text_of(picture, model, characters):
    """The text in a picture: the likeliest character of each column, repetitions and blanks removed."""
    pixels = np.asarray(picture.convert("L").resize((WIDTH, HEIGHT)), "float32") / 255
    (columns,) = model(input1=pixels[None, None])
    numbers = columns.argmax(-1).ravel()
    starts = np.diff(numbers, prepend=0) != 0
    return "".join(characters[n] for n in numbers[starts & (numbers > 0)])


def main(pictures, ctx=None):
    """Prints the texts in pictures, and returns them."""
    model, characters = load(ctx)
    texts = [text_of(picture, model, characters) for picture in pictures]
    print(*texts, sep="\n")
    print(model.report)
    return texts


if __name__ == "__main__":
    main([Image.open(path) for path in sys.argv[1:]] or [drawn(word, seed) for seed, word in enumerate(TEXTS)])
