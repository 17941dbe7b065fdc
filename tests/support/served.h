/* served.h - a small HTTP server on loopback for a test: each request goes to a function of the
 * test's, on a thread of the server's own, one after the other. */
#ifndef SUPPORT_SERVED_H
#define SUPPORT_SERVED_H
#include "base/os.h"

/* The whole request up to its blank line. Writes the answer to the stream, or none. */
typedef void served_fn(void *context, struct str request, struct file stream);

struct served;
struct served *served_open(struct arena *perm, served_fn *answer, void *context);
struct str     served_url(struct served *s, struct arena *perm); /* http://127.0.0.1:PORT */
i32            served_port(struct served *s);
void           served_close(struct served *s);

bool served_asks(struct str request, const char *part); /* is it in the request? */
void served_reply(struct file stream, int code, const char *headers, struct str body);

#endif
