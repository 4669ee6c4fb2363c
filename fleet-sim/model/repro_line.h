// How a run is repeated, as one line for a shell: the folder it was started in, and its words.
// repro.txt in the folder of a run's reports has it; `walle-fleet-sim verify` reads it again.
#ifndef SIM_REPRO_LINE_H
#define SIM_REPRO_LINE_H

#include "base/error.h"

#include <stddef.h>

#define SIM_REPRO_FILE      "repro.txt"
#define SIM_REPRO_BYTES_MAX 8192u // of the line, with the byte behind it
#define SIM_REPRO_WORDS_MAX 256u

// "cd /there && walle-fleet-sim run --out 'a b'": quoted where a shell needs it, the program by its
// name. Empty when it is longer than that: half a line would be another run.
void sim_repro_write(int argc, char *const *argv, char out[SIM_REPRO_BYTES_MAX]);

// Words as a line for a shell, the last one NULL; likewise empty when there is no room for it.
void sim_repro_words(const char *const *words, char *out, size_t out_bytes);

struct sim_repro {
    char text[SIM_REPRO_BYTES_MAX]; // what the words point into
    const char *folder;
    const char *words[SIM_REPRO_WORDS_MAX + 1]; // with "walle-fleet-sim"; NULL behind the last one
    uint32_t count;
};

// What sim_repro_write wrote. INVALID: it is no such line.
BASE_NODISCARD enum base_status sim_repro_read(const char *line, struct sim_repro *out);

#endif
