// A self-signed certificate for development: ECDSA P-256, ten years, for localhost, 127.0.0.1 and
// ::1. Production brings its own (tls.certificate, tls.key).
#ifndef GW_DEV_CERTIFICATE_H
#define GW_DEV_CERTIFICATE_H

#include "base/error.h"

// Writes both files (the key with mode 0600). IO, NOMEM with the path.
BASE_NODISCARD enum base_status gw_dev_certificate_make(const char *certificate_path,
                                                        const char *key_path,
                                                        struct base_error *error);

#endif
