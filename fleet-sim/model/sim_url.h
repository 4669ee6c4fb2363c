// Addresses as the command line has them: "https://HOST:PORT".
#ifndef SIM_URL_H
#define SIM_URL_H

#include "base/status.h"
#include "base/str.h"
#include "model/sim_options.h"

// "https://127.0.0.1:8443". INVALID.
BASE_NODISCARD enum base_status sim_url_parse(struct base_str text, char host[SIM_TEXT_MAX],
                                              uint16_t *out_port, bool *out_tls);

#endif
