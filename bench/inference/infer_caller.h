// One HTTP/1.1 connection of the load generator: the same request again and again, its reply read
// to the end. The request is one piece of memory that all connections share.
#ifndef BENCH_INFER_CALLER_H
#define BENCH_INFER_CALLER_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define INFER_REPLY_HEAD_MAX 4096

struct infer_server {
    struct sockaddr_storage address;
    socklen_t address_size;
    uint8_t *request; // head and body
    size_t request_bytes;
};

enum infer_progress { INFER_WAITS, INFER_DONE, INFER_PROGRESS_COUNT };

struct infer_caller {
    const struct infer_server *server;
    int fd;
    uint32_t opened;    // how often
    bool watches_sends; // its owner's note: what epoll was told
    bool busy;
    uint64_t meant_us; // when the call was to begin
    size_t sent;
    size_t head_bytes; // of the reply, so far
    bool head_whole;
    bool closes; // the server's side, after this reply
    uint64_t body_left;
    int status; // of the last reply; 0: the connection was lost
    char head[INFER_REPLY_HEAD_MAX];
};

// `url` is http://IP:PORT/PATH; `headers` are lines with their ends. INVALID, IO, NOMEM with a
// text. What it allocates lives as long as the process.
BASE_NODISCARD enum base_status infer_server_make(struct infer_server *server, const char *url,
                                                  const char *headers, const char *body_path,
                                                  struct base_error *error);
BASE_NODISCARD enum base_status infer_caller_open(struct infer_caller *caller,
                                                  const struct infer_server *server);
// The caller is not busy. Nothing is sent yet.
void infer_caller_begin(struct infer_caller *caller, uint64_t meant_us);
// Sends and receives what goes. DONE once for each call; a connection that was lost is opened
// anew: `opened` changes.
enum infer_progress infer_caller_step(struct infer_caller *caller, uint8_t *buffer, size_t size);
// Does it wait to send?
bool infer_caller_sends(const struct infer_caller *caller);

#endif
