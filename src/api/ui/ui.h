/*
 * ui.h - the dashboard: files of src/api/ui that are part of the program, and served as they are.
 *
 * The page calls the API from the browser, with the token that its user types; the daemon does
 * nothing for it that it does not do for other clients.
 */
#ifndef TICKWHEEL_API_UI_UI_H
#define TICKWHEEL_API_UI_UI_H

#include "api/core/call.h"

/* GET /ui: the page. */
void ui_page(struct call *call);

/* GET /ui/{file}: what the page loads. */
void ui_file(struct call *call);

#endif
