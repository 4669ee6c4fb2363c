// The data folder that a run in virtual time works on: a copy of a gateway's, which goes with it.
#ifndef SIM_CORE_FOLDER_H
#define SIM_CORE_FOLDER_H

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_core_folder {
    char path[PATH_MAX]; // empty: there is none
    int held;            // while it is open the copy is in use
    bool in_memory;
};

// The keys that the gateway signs with stay where they are. Copies that killed runs left go first.
// BUSY: a gateway runs in `dir`; NOT_FOUND: it is no gateway's; INVALID: something stands in the
// place of one of its files, and `error` says what and where; IO, FULL.
BASE_NODISCARD enum base_status sim_core_folder_copy(const char *dir, struct sim_core_folder *out,
                                                     struct base_error *error);
// When a gateway wrote in `dir` last, in microseconds since 1970: the time that a run goes on from.
// NOT_FOUND, IO.
BASE_NODISCARD enum base_status sim_core_folder_time(const char *dir, uint64_t *out_wall_us,
                                                     struct base_error *error);
// At most so many bytes of content are there for devices to pull.
uint64_t sim_core_folder_content(const char *dir);
// What it takes of the memory; 0 where it lies on a disk.
uint64_t sim_core_folder_bytes(const struct sim_core_folder *folder);
// What the files of a copy have at this moment, in a copy of its own: what a process that is killed
// now leaves. Whoever has the first one open may go on. FULL, IO.
BASE_NODISCARD enum base_status sim_core_folder_again(const struct sim_core_folder *folder,
                                                      struct sim_core_folder *out,
                                                      struct base_error *error);
void sim_core_folder_remove(struct sim_core_folder *folder);

#endif
