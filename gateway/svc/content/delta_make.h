// Makes wdelta streams (wire/delta_piece.h).
#ifndef GW_DELTA_MAKE_H
#define GW_DELTA_MAKE_H

#include "svc/content/blob_zstd.h"

// As gw_dcz_compress: a new heap block (free()), the same for the same inputs. UNSUPPORTED when it
// would not save at least a tenth, or the contents are too large; NOMEM; BUSY: stopping. Beside the
// result it holds about 12 MiB, however large the contents. Background threads.
BASE_NODISCARD enum base_status gw_wdelta_make(const struct gw_dictionary *dictionary,
                                               const uint8_t *bytes, size_t size,
                                               uint8_t **out_bytes, size_t *out_size);

#endif
