// The word of rides, any text as that of a request and as that of an answer. No crash; a token that
// is read is answered with itself, and an answer speaks to one token alone.
#include "fuzz_target.h"

#include "base/check.h"
#include "wire/digest.h"
#include "wire/ride_token.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_str text = {(const char *)data, size};
    struct base_str token;
    char answer[WIRE_RIDE_ANSWER_MAX];
    char again[WIRE_RIDE_TEXT + 1];
    uint64_t number = 0;
    if (wire_ride_token(text, &token) == BASE_OK) {
        base_check(wire_device_parse(token, &number) == BASE_OK);
        wire_ride_text(number, again);
        base_check(memcmp(again, data, size) == 0);
        size_t used = wire_ride_answer(token, BASE_STR("checkin, report"), answer);
        struct base_str said = {answer, used};
        base_check(wire_ride_says(said, number, BASE_STR("report")));
        base_check(!wire_ride_says(said, number + 1, BASE_STR("report")));
    }
    if (size >= WIRE_RIDE_TOKEN &&
        wire_device_parse((struct base_str){(const char *)data, WIRE_RIDE_TOKEN}, &number) ==
            BASE_OK) {
        bool says = wire_ride_says(text, number, BASE_STR("report"));
        base_check(!says || size > WIRE_RIDE_TOKEN + 6);
        base_check(!wire_ride_says(text, ~number, BASE_STR("report")));
    } else {
        base_check(!wire_ride_says(text, 0, BASE_STR("report")));
    }
    return 0;
}
