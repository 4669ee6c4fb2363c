// A self-signed certificate for development: ECDSA P-256, 90 days, for localhost, 127.0.0.1 and
// ::1. It is no certificate authority: who trusts it trusts this one server, and nothing that its
// key could sign. Production brings its own (tls.certificate, tls.key).
#ifndef GW_DEV_CERTIFICATE_H
#define GW_DEV_CERTIFICATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_DEV_CERTIFICATE_DAYS       90u
#define GW_DEV_CERTIFICATE_RENEW_DAYS 30u // made anew when fewer are left

// Writes both files (the key with mode 0600). IO, NOMEM with the path.
BASE_NODISCARD enum base_status gw_dev_certificate_make(const char *certificate_path,
                                                        const char *key_path,
                                                        struct base_error *error);
// The same with an Ed25519 key: signatures are equally long then, and so is every handshake. For
// handshakes that are counted to the byte.
BASE_NODISCARD enum base_status gw_dev_certificate_steady(const char *certificate_path,
                                                          const char *key_path,
                                                          struct base_error *error);

// Must it be made: is there none, has it fewer than GW_DEV_CERTIFICATE_RENEW_DAYS left at `now_s`
// (wall clock), or is it a certificate authority, as older gateways made them? False for a file
// that is no certificate, or that is no regular file: that is for people.
bool gw_dev_certificate_due(const char *certificate_path, uint64_t now_s);

#endif
