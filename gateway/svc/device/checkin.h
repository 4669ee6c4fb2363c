// Reading a check-in and deciding what it gets. Worker's thread.
#ifndef GW_CHECKIN_H
#define GW_CHECKIN_H

#include "svc/core_private.h"
#include "wire/trust/meta.h"
#include "wire/trust/offer.h"
#include "wire/profile.h"
#include "svc/access/credentials.h"

struct wire_ask;

// What a device told about itself, checked, and what its cohort says.
struct gw_checkin {
    uint64_t device_id;
    uint64_t peer; // whom a record that begins is charged to
    enum gw_admission admission;
    uint16_t tenant;
    bool proven;     // the request showed who it is
    bool asked;      // it sent a question: the director answers
    bool lease;      // something runs there on a lease: what it may keep is said again
    bool no_shadows; // it can run no version beside another
    bool beside;     // it came with another request, whose answer has no place for marks
    struct wire_profile profile;
    struct gw_cohort *cohort; // valid until the next look-up
    struct wire_ask ask;      // the question, where it asked
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
};

void gw_checkin_handle(struct gw_worker *worker, struct gw_exchange *exchange);

#define GW_PARTIALS_INLINE 16u // with more, what is known of the device is asked first

// Parses both headers, checks who it is and finds the cohort. On failure *out_problem says what is
// wrong (static); DENIED: `admission` says why the device is not let in.
BASE_NODISCARD enum base_status gw_checkin_read(struct gw_worker *worker,
                                                const struct gw_request *request,
                                                struct gw_checkin *out, const char **out_problem);
// The second half of it: the profile, and the cohort of a device whose id and tenant are known.
BASE_NODISCARD enum base_status gw_checkin_profile(struct gw_worker *worker,
                                                   struct base_str profile, struct gw_checkin *out,
                                                   const char **out_problem);
// The question of a device with a root, when there is one and somebody to answer it. INVALID.
BASE_NODISCARD enum base_status gw_checkin_ask(const struct gw_worker *worker,
                                               struct base_str nonce, struct gw_checkin *checkin,
                                               const char **out_problem);
// Fills the reply for a request that could not be read.
void gw_checkin_refuse(struct gw_worker *worker, struct gw_exchange *exchange,
                       enum base_status status, const struct gw_checkin *checkin,
                       const char *problem);
// The device was seen now. Is there nothing to tell it? True when it has what it should, or when
// that was found out before and nothing that decides it has changed since. False: ask
// gw_checkin_offers.
bool gw_checkin_current(struct gw_worker *worker, const struct gw_checkin *checkin);
// The slow path: the digest is not what it should be, or it may be drawn as control. Fills offers;
// count 0, again_count 0 and flags 0 mean nothing to do. `bytes_max` bounds the envelopes. Marks
// what is offered. True: an offer is held back, and the device is to be told when to ask again
// (out->next_checkin_s), for its own interval may be another.
bool gw_checkin_offers(struct gw_worker *worker, const struct gw_checkin *checkin, size_t bytes_max,
                       struct wire_offers *out);

enum gw_checkin_says {
    GW_CHECKIN_NOTHING, // to do
    GW_CHECKIN_OFFERS,
    GW_CHECKIN_BUSY, // no answer can be made now
};
// The whole answer to a check-in: OFFERS fills `out`, whose envelopes of statements are at most
// `bytes_max`. The director's answer comes besides, and lies in `director`
// (WIRE_STATEMENT_BYTES_MAX); NULL: the caller adds it.
enum gw_checkin_says gw_checkin_decide(struct gw_worker *worker, const struct gw_checkin *checkin,
                                       size_t bytes_max, uint8_t *director,
                                       struct wire_offers *out);

#endif
