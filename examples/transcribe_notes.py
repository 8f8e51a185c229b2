"""The notes of a melody, with the model of basic-pitch (Spotify): pitches and times from the samples of a sound.

Without a file, a synthesized melody is transcribed. WAV files have one channel of 16 bits at 22 050 Hz.

pip install --no-deps basic-pitch && python examples/transcribe_notes.py [melody.wav]
"""

import sys
import wave

import numpy as np
from shipped_models import ComparedModel, file_of

RATE, WINDOW = 22_050, 43_844  # samples in a second, and in one run of the model
FRAMES, SKIPPED = 172, 15  # of a window, and at either end of it, where it overlaps with its neighbors
HOP = 256  # samples between frames
LOWEST = 21  # MIDI number of the first of 88 pitches
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
MELODY = ((60, 0.4), (62, 0.4), (64, 0.4), (65, 0.4), (67, 0.8), (67, 0.8), (69, 0.4), (69, 0.4), (67, 0.8))


def synthesized(notes, rate=RATE):
    """The samples of notes, pairs of MIDI number and seconds: decaying tones with six harmonics."""
    sounds = []
    for pitch, seconds in notes:
        time = np.arange(int(seconds * rate)) / rate
        frequency = 440 * 2 ** ((pitch - 69) / 12)
        tone = sum(np.sin(2 * np.pi * n * frequency * time) / n**2 for n in range(1, 7))
        sounds.append(0.3 * tone * np.exp(-2 * time) * np.minimum(1, 100 * np.minimum(time, time[::-1])))
    return np.concatenate([np.zeros(rate // 4), *sounds, np.zeros(rate // 4)]).astype("float32")


def activations(samples, model):
    """Of frames and pitches: the probabilities that notes sound, and that they begin."""
    step = (FRAMES - 2 * SKIPPED) * HOP
    count = -(-len(samples) // step)
    padded = np.zeros(count * step + WINDOW, "float32")
    padded[SKIPPED * HOP :][: len(samples)] = samples
    sounding, starting = [], []
    for n in range(count):
        window = padded[n * step :][:WINDOW]
        onset, note, _ = model(**{"serving_default_input_2:0": window[None, :, None]})
        sounding.append(note[0, SKIPPED:-SKIPPED])
        starting.append(onset[0, SKIPPED:-SKIPPED])
    return np.concatenate(sounding), np.concatenate(starting)


def notes_of(sounding, starting, onset=0.5, threshold=0.3, shortest=11):
    """Pitch, start and end in seconds of each note: from a peak of `starting` until `sounding` is low."""
    notes = []
    before, after = np.roll(starting, 1, 0), np.roll(starting, -1, 0)
    for frame, pitch in np.argwhere((starting > onset) & (starting >= before) & (starting > after)):
        later = np.flatnonzero((sounding[frame:, pitch] < threshold) | (np.arange(len(sounding) - frame) > 400))
        again = np.flatnonzero(starting[frame + shortest :, pitch] > onset) + shortest
        length = min([len(sounding) - frame, *later[:1], *again[:1]])
        if length >= shortest:
            notes.append((LOWEST + int(pitch), frame * HOP / RATE, (frame + length) * HOP / RATE))
    return notes


def read(path):
    """The samples of a WAV file: 16 bits, mono, at 22 050 Hz."""
    with wave.open(str(path)) as file:
        bits, channels, rate = 8 * file.getsampwidth(), file.getnchannels(), file.getframerate()
        if (bits, channels, rate) != (16, 1, RATE):
            form = f"{channels} channels of {bits} bits at {rate} Hz"
            raise SystemExit(f"{path} has {form}, not 1 of 16 bits at {RATE} Hz")
        return (np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768).astype("float32")


def main(samples, ctx=None):
    """Prints the notes in the samples, and returns them."""
    model = ComparedModel(file_of("basic_pitch", "saved_models", "icassp_2022", "nmp.onnx"), ctx)
    notes = notes_of(*activations(samples, model))
    for pitch, start, end in notes:
        print(f"{NAMES[pitch % 12]}{pitch // 12 - 1:<3} {start:6.2f} s to {end:6.2f} s")
    print(model.report)
    return notes


if __name__ == "__main__":
    main(read(sys.argv[1]) if sys.argv[1:] else synthesized(MELODY))
