// What virtual devices' apps hand to tasks by name (walle.blob): files of a folder, read once and
// shared by all devices.
#ifndef SIM_GIVEN_H
#define SIM_GIVEN_H

#include "base/error.h"
#include "device/blobs.h"

#define SIM_GIVEN_SETS_MAX  256                 // different ones among the devices
#define SIM_GIVEN_BYTES_MAX ((size_t)256 << 20) // of all of them together

struct sim_given;

// `text` is NAME=PATH, or several with commas between them. Of a folder each device has one file,
// always the same. The codes of blob_files_add and blob_files_read; TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status sim_given_new(const char *text, struct sim_given **out,
                                              struct base_error *error);
void sim_given_free(struct sim_given *given); // accepts NULL
// The set of a device, by its id; any thread. `given` NULL: NULL.
const struct dev_blob_set *sim_given_of(const struct sim_given *given, uint64_t device_id);

#endif
