// The codec: requests into frames, frames into answers.
#ifndef H2_CODEC_H
#define H2_CODEC_H

#include "h2_client.h"

#define H2_WINDOW_DEFAULT    65535
#define H2_CONNECTION_WINDOW (1 << 20)
#define H2_OFFER_BYTES_MAX   8192 // longest walle-offer that is passed on

struct h2_stream; // h2_internal.h

BASE_NODISCARD enum base_status h2_codec_open(struct h2_client *client,
                                              const struct h2_options *options);
BASE_NODISCARD enum base_status h2_codec_submit(struct h2_client *client,
                                                const struct h2_request *request,
                                                struct h2_stream *stream);

#endif
