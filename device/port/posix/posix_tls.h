// The TLS context that the options of a port ask for.
#ifndef POSIX_TLS_H
#define POSIX_TLS_H

#include "h2/h2_client.h"
#include "posix/posix_port.h"

// The TLS context of the options, NULL for clear text.
BASE_NODISCARD enum base_status posix_tls_new(const struct posix_options *options,
                                              struct h2_tls **out_tls, struct base_error *error);

#endif
