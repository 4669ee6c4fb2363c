// Encodes features of made-up visits and times it.
//
//   ipv_encoder pairs|time MODEL SEED FIRST DEVICES SESSIONS
//
// MODEL: a file made by bench/models/ipv_gru.py, or `projection`. `pairs` writes float32
// steps[32][16] and encoding[32] of each visit, which ipv_gru.py --check takes. One thread.
#include "ipv_book.h"
#include "ipv_encode.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"

#include <stdio.h>
#include <string.h>

static void encode_one(struct ipv_encoder *encoder, const struct ipv_feature *feature, bool pairs,
                       struct ipv_times *times)
{
    float encoding[IPV_ENCODING];
    float steps[IPV_STEPS][IPV_STEP_WIDTH];
    struct base_error error = {0};
    uint64_t start = ipv_now_ns();
    enum base_status status = ipv_encode(encoder, feature, encoding, &error);
    ipv_samples_add(&times->visit, ipv_now_ns() - start);
    ipv_need(status == BASE_OK, error.text);
    times->events_of_features += feature->events;
    times->feature_bytes += sizeof(encoding);
    if (pairs) {
        ipv_feature_steps(feature, steps);
        ipv_need(fwrite(steps, sizeof(steps), 1, stdout) == 1 &&
                     fwrite(encoding, sizeof(encoding), 1, stdout) == 1,
                 "cannot write");
    }
}

int main(int argc, char **argv)
{
    static struct ipv_device device;
    static struct ipv_book book;
    struct ipv_encoder *encoder = NULL;
    struct ipv_span span;
    struct ipv_times times = {0};
    struct base_error error = {0};
    bool pairs = argc > 1 && strcmp(argv[1], "pairs") == 0;
    ipv_need(argc == 7 && (pairs || strcmp(argv[1], "time") == 0) &&
                 ipv_span_parse(&span, argv + 3),
             "usage: ipv_encoder pairs|time MODEL|projection SEED FIRST DEVICES SESSIONS");
    const char *model = strcmp(argv[2], "projection") != 0 ? argv[2] : NULL;
    ipv_need(ipv_encoder_new(model, &encoder, &error) == BASE_OK, error.text);
    for (uint64_t i = 0; i < span.devices; i++) {
        struct dev_event event;
        ipv_device_init(&device, span.seed, span.first + i, span.sessions);
        ipv_book_init(&book);
        while (ipv_device_next(&device, &event)) {
            const struct ipv_feature *feature = ipv_book_event(&book, &event);
            if (feature != NULL) {
                encode_one(encoder, feature, pairs, &times);
            }
        }
    }
    if (!pairs) {
        ipv_times_print(&times);
        (void)fputc('\n', stdout);
    }
    ipv_encoder_free(encoder);
    ipv_times_done(&times);
    return fflush(stdout) == 0 ? 0 : 1;
}
