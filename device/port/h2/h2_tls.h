// TLS of a connection: handshake, resumed sessions, early data.
#ifndef H2_TLS_H
#define H2_TLS_H

#include "h2_client.h"

BASE_NODISCARD enum base_status h2_tls_attach(struct h2_client *client,
                                              const struct h2_options *options);
// The handshake failed: perhaps for the session it offered, so the next does without.
void h2_tls_forget(struct h2_client *client);
// How much early data the peer takes; 0: none, or it does not know us.
size_t h2_tls_early_room(const struct h2_client *client);
bool h2_tls_is_h2(const struct h2_client *client);

#endif
