// Open bodies: requests that are written to after they were sent.
#ifndef H2_BODY_H
#define H2_BODY_H

#include "h2_client.h"
#include <nghttp2/nghttp2.h>

struct h2_stream; // h2_internal.h

// Body source of nghttp2.
ssize_t h2_body_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity,
                     uint32_t *out_flags, nghttp2_data_source *source, void *user);
// The answer is complete: what is left of the open body is not wanted.
void h2_body_stop(struct h2_client *client, struct h2_stream *stream);
// The codec took what it could: calls the `writable` that are owed.
void h2_body_tell(struct h2_client *client);
// What was not given as early data may go now.
void h2_body_resume_all(struct h2_client *client);

#endif
