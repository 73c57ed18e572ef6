/* y = x_0 - x_1, refused where it would not fit: the smallest module worth running. */
#include "sits_module.h"

#define HIGHEST 32767

SITS_MODULE(2, 1) {
  for (int i = 0; i < 2; i++) {
    if (sits_inputs[i] > HIGHEST || sits_inputs[i] < -HIGHEST) return SITS_INPUT_RANGE;
  }
  sits_outputs[0] = sits_inputs[0] - sits_inputs[1];
  return SITS_OK;
}
