// How a run was asked for, so that it can be played again: the folder it was started in, and its
// words. In the folder of its reports, with a zero byte behind each.
#ifndef SIM_RUN_ARGUMENTS_H
#define SIM_RUN_ARGUMENTS_H

#include "base/buffer.h"
#include "base/error.h"

#define SIM_ARGUMENTS_FILE      "arguments.bin"
#define SIM_ARGUMENTS_MAX       512
#define SIM_ARGUMENTS_BYTES_MAX 65536u

// The words of this process, before anything is made of them; the caller frees *out. NULL: there
// are more than can be kept.
char *sim_arguments_keep(int argc, char *const *argv, size_t *out_bytes);

struct sim_arguments {
    struct base_buffer bytes;
    const char *folder;
    const char *words[SIM_ARGUMENTS_MAX]; // into `bytes`
    uint32_t count;
};

// Of the run whose reports lie in `folder`. CORRUPT, NOT_FOUND, IO, NOMEM, TOO_LARGE.
BASE_NODISCARD enum base_status sim_arguments_read(const char *folder, struct sim_arguments *out,
                                                   struct base_error *error);
void sim_arguments_done(struct sim_arguments *arguments);

#endif
