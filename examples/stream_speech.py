"""Finds speech in a sound that arrives in chunks of 32 ms, with the ONNX file of Silero VAD.

The state of the network is an input and an output of the model, and is passed from chunk to chunk. Without a file, a
synthesized voice between silences is read. `voice_activity.py` builds the same network from its parts.

pip install --no-deps silero-vad && python examples/stream_speech.py [recording.wav]
"""

import sys

import numpy as np
from shipped_models import ComparedModel, file_of
from voice_activity import CHUNK, CONTEXT, RATE, read


def synthesized(seconds=1.9):
    """A second of silence, pulses at 120 Hz through the resonances of a vowel in syllables, and silence."""
    rng, time = np.random.default_rng(0), np.arange(int(seconds * RATE)) / RATE
    voice = np.zeros(len(time))
    for formant, width in ((700, 90), (1200, 110), (2600, 160)):
        for harmonic in range(1, 33):
            gain = 1 / harmonic / (1 + ((120 * harmonic - formant) / width) ** 2)
            voice += gain * np.sin(2 * np.pi * 120 * harmonic * time + rng.uniform(0, 6))
    voice *= np.clip(np.sin(2 * np.pi * 4 * time), 0, 1)
    sound = np.concatenate([np.zeros(RATE), 0.3 * voice / np.abs(voice).max(), np.zeros(RATE)])
    return sound + rng.normal(0, 1e-4, len(sound))


class SpeechStream:
    """A call takes the next 512 samples, and returns the probability that they contain speech."""

    def __init__(self, ctx=None):
        self.model = ComparedModel(file_of("silero_vad", "data", "silero_vad.onnx"), ctx)
        self.state, self.last = np.zeros((2, 1, 128), "float32"), np.zeros(CONTEXT, "float32")

    def __call__(self, chunk):
        samples = np.concatenate([self.last, chunk]).astype("float32")
        self.last = samples[-CONTEXT:]
        probability, self.state = self.model(input=samples[None], state=self.state, sr=np.array(RATE))
        return float(probability[0, 0])


def main(samples, ctx=None, threshold=0.5):
    """Prints where speech begins and ends, chunk by chunk; returns the probabilities."""
    stream, probabilities, is_speech = SpeechStream(ctx), [], False
    for n in range(len(samples) // CHUNK):
        probabilities.append(stream(samples[n * CHUNK :][:CHUNK]))
        if is_speech != (probabilities[-1] > threshold):
            is_speech = not is_speech
            print(f"{n * CHUNK / RATE:7.2f} s  {'speech begins' if is_speech else 'speech ends'}")
    print(stream.model.report)
    return probabilities


if __name__ == "__main__":
    main(read(sys.argv[1]) if sys.argv[1:] else synthesized())
