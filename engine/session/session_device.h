// The session's device. See backend/run_device.h.
#ifndef ENG_SESSION_SESSION_DEVICE_H
#define ENG_SESSION_SESSION_DEVICE_H

#include "session/session.h"

// Opens what the options or WALLE_ENGINE_DEVICE name; "cpu" or nothing: the session has none.
// INVALID: no such name. NOT_FOUND: it is not here.
BASE_NODISCARD enum base_status eng_session_device_open(struct eng_session *session,
                                                        struct base_error *error);

#endif
