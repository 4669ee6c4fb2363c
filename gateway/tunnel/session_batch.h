// BATCH, CHUNK and LOSS: credit, order, content, and the way to the sink.
#ifndef GW_SESSION_BATCH_H
#define GW_SESSION_BATCH_H

#include "tunnel/gw_tunnel.h"

enum base_status gw_session_on_batch(struct gw_session *session, const uint8_t *payload,
                                     size_t size);
enum base_status gw_session_on_chunk(struct gw_session *session, const uint8_t *payload,
                                     size_t size);
enum base_status gw_session_on_loss(struct gw_session *session, const uint8_t *payload,
                                    size_t size);

#endif
