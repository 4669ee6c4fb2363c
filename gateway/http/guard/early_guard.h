// Who may bring early data: a ClientHello that was not seen before (RFC 8446, 8.2). OpenSSL accepts
// early data only when its ticket's age fits the clock within ten seconds, so what came longer ago
// than GW_EARLY_WINDOW_MS needs no remembering. When nothing more can be remembered, or when a
// process that knew more has just ended, the answer is no: the handshake then goes on without early
// data, one round trip slower. Safe for all threads.
#ifndef GW_HTTP_EARLY_GUARD_H
#define GW_HTTP_EARLY_GUARD_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_EARLY_WINDOW_MS    20000
#define GW_EARLY_RANDOM_BYTES 32         // of a ClientHello
#define GW_EARLY_SLOTS        (1u << 17) // of one window; half of them are used at most: 2 MiB

struct gw_early_guard;

// `quiet_until_ms`: the answer is no until then. NOMEM.
BASE_NODISCARD enum base_status gw_early_guard_new(uint64_t now_ms, uint64_t quiet_until_ms,
                                                   struct gw_early_guard **out);
void gw_early_guard_free(struct gw_early_guard *guard); // accepts NULL
// True: it is the first with this random, and it is remembered.
bool gw_early_guard_first(struct gw_early_guard *guard, const uint8_t random[GW_EARLY_RANDOM_BYTES],
                          uint64_t now_ms);

#endif
