// Do the signatures of a release suffice for a root, and if not, which is missing or out of place?
//
// A device only needs yes or no (wire_root_verify). Whoever hands releases out, or is about to,
// wants to say what is wrong before anybody is offered anything: the gateway and `walle` ask here.
#ifndef WIRE_RELEASE_CHECK_H
#define WIRE_RELEASE_CHECK_H

#include "base/error.h"
#include "wire/trust/root.h"

// Is `envelope` a release that enough of the keys signed that `root` names for its task?
// A beta stage counts as seen from a device of the beta channel. `what` names the statement in
// `error` ("stage gray"): which key, by the first 16 hex digits of its id, and which role. INVALID:
// no release statement; SIGNATURE: no key that counts signed; THRESHOLD: too few.
BASE_NODISCARD enum base_status wire_release_check(const struct wire_root *root,
                                                   struct base_span envelope,
                                                   const struct wire_verifier *verifier,
                                                   const char *what, struct base_error *error);

#endif
