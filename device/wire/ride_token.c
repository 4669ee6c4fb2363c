// Tokens of rides: the text of the header `walle-ride` in a request and in its answer
// (ride_token.h). Written and asked for its words by the device (core/control/device_ride.c), read
// and answered by the gateway (http/proxy_ride.c, svc/device/ride.c); pure, any thread. Answers are
// parsed with care but without complaint: what is not understood is no word, and the device goes on
// as if nothing had ridden.
#include "wire/ride_token.h"

#include "base/check.h"
#include "wire/digest.h"

#include <string.h>

_Static_assert(WIRE_RIDE_TOKEN == WIRE_DEVICE_HEX, "a token is spelled as an id is");

void wire_ride_text(uint64_t token, char out[WIRE_RIDE_TEXT + 1])
{
    out[0] = '1';
    out[1] = ' ';
    wire_device_hex(token, out + 2);
}

enum base_status wire_ride_token(struct base_str text, struct base_str *out_token)
{
    uint64_t token = 0;
    if (text.size != WIRE_RIDE_TEXT || !base_str_starts(text, BASE_STR("1 "))) {
        return BASE_ERR_INVALID;
    }
    *out_token = (struct base_str){text.data + 2, WIRE_RIDE_TOKEN};
    return wire_device_parse(*out_token, &token);
}

size_t wire_ride_answer(struct base_str token, struct base_str words,
                        char out[WIRE_RIDE_ANSWER_MAX])
{
    base_check(token.size == WIRE_RIDE_TOKEN &&
               words.size < WIRE_RIDE_ANSWER_MAX - WIRE_RIDE_TOKEN);
    memcpy(out, token.data, token.size);
    out[WIRE_RIDE_TOKEN] = ' ';
    memcpy(out + WIRE_RIDE_TOKEN + 1, words.data, words.size);
    return WIRE_RIDE_TOKEN + 1 + words.size;
}

bool wire_ride_says(struct base_str answer, uint64_t token, struct base_str word)
{
    uint64_t named = 0;
    if (answer.size <= WIRE_RIDE_TOKEN || answer.data[WIRE_RIDE_TOKEN] != ' ' ||
        wire_device_parse((struct base_str){answer.data, WIRE_RIDE_TOKEN}, &named) != BASE_OK ||
        named != token) {
        return false;
    }
    for (size_t at = WIRE_RIDE_TOKEN + 1; at < answer.size;) {
        size_t end = at;
        while (end < answer.size && answer.data[end] != ',' && answer.data[end] != ' ') {
            end++;
        }
        if (base_str_equal((struct base_str){answer.data + at, end - at}, word)) {
            return true;
        }
        at = end + 1;
    }
    return false;
}
