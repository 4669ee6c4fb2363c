// The key a device draws before it enrols, and brings with every try (`walle-enroll-key`). Who
// brings it again asks again: what its first try was given is made of the key, so that an answer
// that got lost is given once more, word for word, and to nobody who has not the key. Pure.
#ifndef GW_ENROL_KEY_H
#define GW_ENROL_KEY_H

#include "svc/access/secret.h"

#include <stdint.h>

#define GW_SECRET_ENROL_KEY   "wek_"                      // a device's, of its enrolment
#define GW_ENROL_KEY_DRAWS    4u                          // ids that a key stands for, in turn
#define GW_AUTHORIZATION_SIZE (7u + GW_SECRET_TEXT_BYTES) // "Bearer " and an enrolment token

// Has it the form of a key?
bool gw_enrol_key_ok(struct base_str key);
// Who enrols: a device `id` that was reset `resets` times; `authorization` is the request's, with
// its token.
struct gw_enrol_who {
    struct base_str key;
    struct base_str authorization;
    uint64_t id;
    uint32_t resets;
};

// Its credential: another one after each reset. INVALID: key or token have not their form.
BASE_NODISCARD enum base_status gw_enrol_key_credential(const struct gw_enrol_who *who,
                                                        char out_text[GW_SECRET_TEXT_BYTES + 1]);
// Id `draw` (below GW_ENROL_KEY_DRAWS) of a device that brings a key and no id. Never 0.
uint64_t gw_enrol_key_id(struct base_str key, uint32_t draw);

#endif
