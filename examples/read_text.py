"""Reads the text in a picture, with the models of rapidocr (PP-OCRv6): one finds the lines, one reads each of them.

Without a file, lines are drawn by Pillow and read back.

pip install --no-deps rapidocr && pip install pillow scipy && python examples/read_text.py [picture.png]
"""

import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage
from shipped_models import ComparedModel, file_of

LINES = ("ocannl reads text", "The quick brown fox", "jumps over 13 lazy dogs.")
CELL = 32  # pixels: sizes of pictures are multiples of it
HEIGHT = 48  # of a line that is read, in pixels
PROBABILITY = 0.3  # of the pixels of a line
MIN_PIXELS = 20  # of a line


def drawn(lines=LINES, size=28):
    """A white picture with lines of black text."""
    font = ImageFont.load_default(size)
    picture = Image.new("RGB", (448, 64 * len(lines) + 32), "white")
    for n, line in enumerate(lines):
        ImageDraw.Draw(picture).text((24, 64 * n + 28), line, "black", font)
    return picture


def normalized(picture):
    """`1, 3, height, width`, from -1 to 1."""
    return (np.asarray(picture, "float32").transpose(2, 0, 1)[None] / 127.5) - 1


def boxes_of(picture, detector):
    """Left, top, right and bottom of each line, from top to bottom."""
    width, height = (max(CELL, CELL * round(size / CELL)) for size in picture.size)
    (probabilities,) = detector(x=normalized(picture.resize((width, height))))
    regions, _ = ndimage.label(probabilities[0, 0] > PROBABILITY)
    boxes = []
    for rows, columns in ndimage.find_objects(regions):
        if (rows.stop - rows.start) * (columns.stop - columns.start) >= MIN_PIXELS:
            margin = 0.6 * (rows.stop - rows.start)  # the network is trained on regions smaller than the lines
            sides = columns.start - margin, rows.start - margin, columns.stop + margin, rows.stop + margin
            scales = np.array(picture.size * 2) / (width, height, width, height)
            boxes.append(tuple(np.clip(np.multiply(sides, scales), 0, picture.size * 2).astype(int).tolist()))
    return sorted(boxes, key=lambda box: (box[1], box[0]))


def text_of(line, reader, characters):
    """The text of a picture of a line: the likeliest character of each column, repetitions and blanks removed."""
    width = round(line.width * HEIGHT / line.height)
    array = np.zeros((1, 3, HEIGHT, 320 * -(-width // 320)), "float32")  # few widths, so that few are compiled
    array[..., :width] = normalized(line.resize((width, HEIGHT)))
    (probabilities,) = reader(x=array)
    columns = probabilities[0].argmax(1)
    starts = np.diff(columns, prepend=0) != 0
    return "".join(characters[n - 1] for n in columns[starts & (columns > 0)])


def main(picture, ctx=None):
    """Prints the lines of text in a picture, and returns them."""
    folder = file_of("rapidocr", "models")
    detector, reader = (ComparedModel(folder / f"PP-OCRv6_{kind}_small.onnx", ctx) for kind in ("det", "rec"))
    characters = [*reader.model.metadata["character"].split("\n"), " "]
    texts = [text_of(picture.crop(box), reader, characters) for box in boxes_of(picture, detector)]
    print(*texts, sep="\n")
    print(f"lines: {detector.report}\ntext: {reader.report}")
    return texts


if __name__ == "__main__":
    main(Image.open(sys.argv[1]).convert("RGB") if sys.argv[1:] else drawn())
