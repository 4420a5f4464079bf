/* fuzz.h - what a fuzz target defines; libFuzzer or replay.c calls it. */
#ifndef CLOISTER_FUZZ_H
#define CLOISTER_FUZZ_H
#include <stddef.h>
#include <stdint.h>

/* Must return 0, whatever the bytes are.  What must hold is asserted. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
