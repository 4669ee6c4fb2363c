// The keys that seal TLS session tickets. The newest seals; those before it still open what they
// sealed, for as long as a ticket lives. A new one is made every period, so that a key that leaks
// opens a day's sessions and not a year's. Kept in one file that is replaced as a whole, so that a
// restart ends no ticket.
//
//   file := u64 magic, GW_TICKET_KEYS_MAX x (u64 made_s, 80 bytes), newest first; made_s 0: none
//           (a file of 80 bytes is one key of an older gateway)
//
// Main thread, at start, on reload and when a period is over.
#ifndef GW_TICKET_KEYS_H
#define GW_TICKET_KEYS_H

#include "base/error.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define GW_TICKET_LIFE_S    86400u // a phone that comes back within a day resumes
#define GW_TICKET_KEYS_MAX  8u     // a new one comes no sooner than the oldest may go
#define GW_TICKET_KEY_BYTES 80u    // name 16, HMAC-SHA-256 32, AES-256 32

struct gw_ticket_key {
    uint64_t made_s; // wall clock; 0: there is none
    uint8_t bytes[GW_TICKET_KEY_BYTES];
};

struct gw_ticket_keys {
    struct gw_ticket_key keys[GW_TICKET_KEYS_MAX];
};

// Are the keys due for a new one? `period_s` 0: never.
bool gw_ticket_keys_due(const struct gw_ticket_keys *keys, uint64_t now_s, uint64_t period_s);
// Reads the file, makes it when it is not there, puts a new key in front when one is due, and drops
// those that no living ticket needs. INVALID (others may read the file, or it is none), IO, NOMEM
// with a text.
BASE_NODISCARD enum base_status gw_ticket_keys_load(const char *path, uint64_t now_s,
                                                    uint64_t period_s, struct gw_ticket_keys *out,
                                                    struct base_error *error);
// The context seals and opens tickets with a copy of the keys, which it wipes at its end. NOMEM.
BASE_NODISCARD enum base_status gw_ticket_keys_use(const struct gw_ticket_keys *keys,
                                                   SSL_CTX *context);

#endif
