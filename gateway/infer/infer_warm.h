// What a version does before its first call: it is planned for the sizes that model.conf names, and
// runs the call that its folder may have, DIR/MODEL/VERSION/warmup.json: the body of a call in the
// protocol's JSON. So the first real call of that size finds a plan that has been run.
#ifndef GW_INFER_WARM_H
#define GW_INFER_WARM_H

#include "infer/infer_model.h"

// The version is in no list yet. What cannot be planned is told to the log. A call that is there
// has to run, in GW_INFER_WARM_US_MAX: INVALID, NOT_FOUND, TIMEOUT, TOO_LARGE, IO and what the
// engine says, with the file's name. NOMEM, and what the engine says of a session.
BASE_NODISCARD enum base_status gw_infer_warm(const struct gw_infer_service *service,
                                              const struct gw_infer_source *source,
                                              struct gw_infer_version *version,
                                              struct base_error *error);

#endif
