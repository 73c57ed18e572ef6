/* Guest ABI 1 (ABI.md): the exports of a module written in C.
 *
 *   #include "sits_module.h"
 *   SITS_MODULE(2, 1) {                    // two inputs, one output; the body is sits_infer
 *     sits_outputs[0] = sits_inputs[0] - sits_inputs[1];
 *     return SITS_OK;
 *   }
 */
#ifndef SITS_MODULE_H
#define SITS_MODULE_H

#include <stdint.h>

#define SITS_OK 0
#define SITS_INPUT_RANGE 1

#define SITS_EXPORT(name) __attribute__((export_name(#name))) int32_t name(void)

#define SITS_MODULE(inputs, outputs)                                                \
  static int32_t sits_inputs[inputs];                                               \
  static int32_t sits_outputs[outputs];                                             \
  SITS_EXPORT(sits_abi) { return 1; }                                               \
  SITS_EXPORT(sits_input) { return (int32_t)(uintptr_t)sits_inputs; }               \
  SITS_EXPORT(sits_input_count) { return (inputs); }                                \
  SITS_EXPORT(sits_output) { return (int32_t)(uintptr_t)sits_outputs; }             \
  SITS_EXPORT(sits_output_count) { return (outputs); }                              \
  SITS_EXPORT(sits_infer)

#endif
