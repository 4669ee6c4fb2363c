// What is known of status codes without looking at an answer. Called by whatever writes answers, of
// the core or of the transport, on the worker's thread; pure. A code that no answer of the
// gateway's own has is "Error": an upstream names its own.
#include "wire/http_status.h"

#include "base/check.h"

const char *wire_status_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {425, "Too Early"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    base_assert(status >= 100);
    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
        if (titles[i].status == status) {
            return titles[i].title;
        }
    }
    return "Error";
}

bool wire_status_common(int status)
{
    return status == 200 || status == 204 || status == 206 || status == 304 || status == 400 ||
           status == 404 || status == 500;
}

struct base_str wire_status_digits(int status, char out[WIRE_STATUS_DIGITS])
{
    base_check(status >= 100 && status <= 999);
    out[0] = (char)('0' + status / 100);
    out[1] = (char)('0' + status / 10 % 10);
    out[2] = (char)('0' + status % 10);
    return (struct base_str){out, WIRE_STATUS_DIGITS};
}
