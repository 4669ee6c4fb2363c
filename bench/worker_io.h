// What the engine benchmark's workers share: reading inputs, timing, answering on standard output.
//
// A worker loads one model, reads its inputs, and then obeys lines on standard input:
//   run COUNT      -> "times US US ..." one per run
//   out FOLDER     -> writes output I as raw bytes to FOLDER/I.bin, answers "out COUNT"
//   memory         -> "memory PEAK_KIB NOW_KIB EXTRA" of this process
//   quit
// On start it answers "ready LOAD_US" (from the call to load until the first run may begin), or
// "error TEXT" and exits with status 1.
#ifndef BENCH_WORKER_IO_H
#define BENCH_WORKER_IO_H

#include <stddef.h>
#include <stdint.h>

#define WORKER_INPUTS_MAX  16
#define WORKER_OUTPUTS_MAX 16
#define WORKER_RANK_MAX    8

// One input as the driver wrote it: FOLDER/NAME.bin, described by a line of FOLDER/inputs.txt:
// NAME ONNX_DTYPE DIM,DIM,...
struct worker_input {
    char name[128];
    int dtype;
    size_t rank;
    int64_t dims[WORKER_RANK_MAX];
    void *data;
    size_t bytes;
};

struct worker {
    size_t input_count;
    struct worker_input inputs[WORKER_INPUTS_MAX];
    void *ctx;
    int (*run)(void *ctx); // 0: done
    // Bytes of output `index`, NULL past the last one.
    const void *(*output)(void *ctx, size_t index, size_t *out_bytes);
    const char *extra; // one word for the memory answer, or NULL
};

// Reads FOLDER/inputs.txt and the files it names; exits with "error TEXT" when it cannot.
void worker_read_inputs(struct worker *worker, const char *folder);
uint64_t worker_now_us(void);
// Decimal number; exits with "error TEXT" for anything else.
uint64_t worker_number(const char *text, size_t size);
_Noreturn void worker_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Answers "ready" and obeys lines until quit or end of input.
void worker_serve(struct worker *worker, uint64_t load_us);

#endif
