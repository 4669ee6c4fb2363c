// Files behind a model: the model itself and its external data, mapped read-only or copied.
//
// A mapping lives until eng_mappings_free. The file must not be cut short meanwhile: reading past
// the new end would be a fault of the process, as with every mapping. Of a copy the file is not
// needed again. One thread.
#ifndef ENG_MODEL_MODEL_FILE_H
#define ENG_MODEL_MODEL_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENG_EXTERNAL_FILES_MAX 4096u // different files of external data
#define ENG_LOCATION_BYTES_MAX 4096u // of a path inside a model

struct eng_mappings;

// `limit_bytes` bounds the sum of all mapped sizes. `copy`: files are read into memory. NOMEM.
BASE_NODISCARD enum base_status eng_mappings_new(size_t limit_bytes, bool copy,
                                                 struct eng_mappings **out_mappings);
void eng_mappings_free(struct eng_mappings *mappings); // accepts NULL

// Maps a whole regular file named by the caller. IO (it became shorter while it was
// copied, too), TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status eng_mappings_open(struct eng_mappings *mappings, const char *path,
                                                  const void **out_bytes, size_t *out_size,
                                                  struct base_error *error);
// Where external data is looked for: `folder`, or the folder that `model_path` lies in.
// IO when it cannot be opened, NOMEM.
BASE_NODISCARD enum base_status eng_mappings_folder(struct eng_mappings *mappings,
                                                    const char *folder, const char *model_path,
                                                    struct base_error *error);
// Maps a file that a model names: a relative path that stays below the folder, without "..",
// through no symbolic link. Finds files mapped before. INVALID: such a path, or no folder is known.
// IO, TOO_LARGE, LIMIT (ENG_EXTERNAL_FILES_MAX), NOMEM.
BASE_NODISCARD enum base_status eng_mappings_external(struct eng_mappings *mappings,
                                                      const char *location, const void **out_bytes,
                                                      size_t *out_size, struct base_error *error);
// Gives the whole pages inside [data, data + bytes) back to the file, when they belong to a
// mapping of one; they return when read. A copy stays as it is.
void eng_mappings_release(const struct eng_mappings *mappings, const void *data, size_t bytes);

#endif
