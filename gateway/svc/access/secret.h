// Secrets that are shown once: 32 random bytes as text behind four letters that say what they open.
// Only their SHA-256 is kept; since they are drawn at random and long, no slow hash is needed.
#ifndef GW_SECRET_H
#define GW_SECRET_H

#include "base/ports.h"
#include "base/str.h"
#include "wire/digest.h"

#define GW_SECRET_BYTES      32u
#define GW_SECRET_TEXT_BYTES (4 + BASE_B64_ENCODED(GW_SECRET_BYTES)) // 47
#define GW_SECRET_OPERATOR   "wat_"                                  // an operator's token
#define GW_SECRET_ENROLMENT  "wet_"                                  // makes devices known
#define GW_SECRET_DEVICE     "wdt_"                                  // a device's credential

// Draws a secret; `prefix` is one of the above. UNSUPPORTED: there is no source of randomness.
BASE_NODISCARD enum base_status gw_secret_make(const struct base_random_port *random,
                                               const char *prefix,
                                               char out_text[GW_SECRET_TEXT_BYTES + 1]);
// The hash of what was presented. False when it does not have the form of a secret behind `prefix`.
bool gw_secret_hash(struct base_str text, const char *prefix, struct wire_sha256 *out);
// Equal bytes? The time taken depends on `size` alone.
bool gw_secret_equal(const void *a, const void *b, size_t size);

#endif
