// A feature's encoding: 32 numbers, 128 bytes, what a recommender wants in place of the row. A
// small recurrent model over the visit's last events where the engine is there and has the model;
// otherwise a fixed projection of the same numbers, which needs neither.
//
// An encoder belongs to one thread.
#ifndef IPV_ENCODE_H
#define IPV_ENCODE_H

#include "base/error.h"
#include "ipv_feature.h"

struct ipv_encoder;

// `model` NULL: the projection. The engine's errors.
BASE_NODISCARD enum base_status ipv_encoder_new(const char *model, struct ipv_encoder **out,
                                                struct base_error *error);
void ipv_encoder_free(struct ipv_encoder *encoder); // accepts NULL
BASE_NODISCARD enum base_status ipv_encode(struct ipv_encoder *encoder,
                                           const struct ipv_feature *feature,
                                           float out[IPV_ENCODING], struct base_error *error);

#endif
