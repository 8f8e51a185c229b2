/* Trains a network on handwritten digits, saves it, and recognizes a digit that it has not seen. No Python is needed:

     python examples/export_digits.py digits.c
     cc -O3 -fwrapv -fno-strict-aliasing -ffp-contract=off -I. -o train_digits examples/train_digits.c digits.c -lm
     ./train_digits digits.safetensors
*/
#include <stdio.h>
#include <string.h>
#include "digits.h"

enum { EPOCHS = 20, BATCHES = 18 };

static const char *const drawing[8] = {
  "  :+*#  ",
  "  *#*#%: ",
  "  %=%*. ",
  "  :*+*- ",
  "     == ",
  "     +- ",
  " -*: #: ",
  "  -*%#  ",
};
static const char shades[] = " .:-=+*#%";

static struct digits net;
static unsigned char file[1 << 20];

static int failed(int code)
{
  if (code) fprintf(stderr, "%s\n", digits_message(code));
  return code;
}

int main(int argc, char **argv)
{
  if (failed(digits_init(&net, 42))) return 1;
  for (int epoch = 1; epoch <= EPOCHS; epoch++) {
    double sum = 0;
    for (int n = 0; n < BATCHES; n++) {
      if (failed(digits_train(&net, n))) return 1;
      sum += net.loss;
    }
    if (epoch % 5 == 0) printf("epoch %2d  loss %.3f\n", epoch, sum / BATCHES);
  }

  if (argc > 1) {
    size_t size = digits_saved_size();
    FILE *out = size <= sizeof file && !failed(digits_save(&net, file, sizeof file)) ? fopen(argv[1], "wb") : 0;
    if (!out || fwrite(file, 1, size, out) != size || fclose(out)) {
      fprintf(stderr, "%s cannot be written\n", argv[1]);
      return 1;
    }
  }

  for (int y = 0; y < 8; y++)
    for (int x = 0; x < 8; x++) net.drawing[y][x] = (float)(strchr(shades, drawing[y][x]) - shades) / 8;
  if (failed(digits_recognize(&net))) return 1;
  int best = 0;
  for (int n = 1; n < 10; n++)
    if (net.probabilities[n] > net.probabilities[best]) best = n;
  printf("the drawing is a %d (%.0f %%)\n", best, 100 * net.probabilities[best]);
  return 0;
}
