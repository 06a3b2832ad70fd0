# Builds the page in the build folder and names it in web_template. Adds tests web:unit and web:browser.

set(web_work ${CMAKE_CURRENT_BINARY_DIR}/page)
set(web_template ${CMAKE_CURRENT_BINARY_DIR}/dist/report.html)
set(web_sources
  package.json package-lock.json .npmrc tsconfig.json vite.config.mjs report.html
  src/engine/boxes.ts src/engine/format.ts src/engine/frame.ts src/engine/kinds.ts src/engine/paint.ts
  src/engine/palette.ts src/engine/search.ts src/engine/tree.ts
  src/profile/parse.ts src/profile/rows.ts
  src/report/crumbs.tsx src/report/main.tsx src/report/report.css src/report/report.tsx src/report/toolbar.tsx
  src/report/use_view_state.ts
  src/ui/box_canvas.tsx src/ui/box_menu.tsx src/ui/cell.ts src/ui/details.tsx src/ui/function_table.tsx
  src/ui/graph_model.ts src/ui/help.tsx src/ui/legend.tsx src/ui/quality_line.tsx src/ui/steps.ts src/ui/theme.ts
  src/ui/view_state.ts)
set(web_test_sources
  test/boxes_test.mjs test/browser.mjs test/look_test.mjs test/page.mjs test/parse_test.mjs test/run_browser.mjs
  test/run_unit.mjs test/sample.mjs test/tree_test.mjs)

# npm works on copies, so that node_modules and the result stay out of the source tree.
set(web_copies "")
foreach(file ${web_sources} ${web_test_sources})
  add_custom_command(OUTPUT ${web_work}/${file}
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${web_work}/${file}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file}
    COMMENT "" VERBATIM)
  list(APPEND web_copies ${web_work}/${file})
endforeach()
set(web_source_copies ${web_sources})
list(TRANSFORM web_source_copies PREPEND ${web_work}/)

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/npm_failed.cmake "message(FATAL_ERROR
  \"The page needs packages from the npm registry, and npm could not get them. Without the page: \"
  \"-DPTARMIGAN_WEB=OFF. With a page that was built elsewhere: -DPTARMIGAN_WEB_DIST=<folder with report.html>.\")\n")
# Packages are installed again only when the lock file changes; no package's own script runs.
add_custom_command(OUTPUT ${web_work}/packages.stamp
  COMMAND ${PTARMIGAN_NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
          || ${CMAKE_COMMAND} -P ${CMAKE_CURRENT_BINARY_DIR}/npm_failed.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${web_work}/packages.stamp
  DEPENDS ${web_work}/package.json ${web_work}/package-lock.json ${web_work}/.npmrc
  WORKING_DIRECTORY ${web_work}
  COMMENT "web: npm ci" VERBATIM)
add_custom_command(OUTPUT ${web_template}
  COMMAND ${PTARMIGAN_NODE} node_modules/typescript/bin/tsc --noEmit
  COMMAND ${PTARMIGAN_NODE} node_modules/vite/bin/vite.js build --logLevel warn --emptyOutDir
          --outDir ${CMAKE_CURRENT_BINARY_DIR}/dist
  DEPENDS ${web_work}/packages.stamp ${web_source_copies}
  WORKING_DIRECTORY ${web_work}
  COMMENT "web: the page" VERBATIM)
add_custom_target(ptarmigan_page ALL DEPENDS ${web_template} ${web_copies})

if(PTARMIGAN_TESTS)
  # The format's document holds an example that a test reads.
  add_test(NAME web:unit COMMAND ${PTARMIGAN_NODE} test/run_unit.mjs WORKING_DIRECTORY ${web_work})
  add_test(NAME web:browser COMMAND ${PTARMIGAN_NODE} test/run_browser.mjs WORKING_DIRECTORY ${web_work})
  set_tests_properties(web:unit web:browser PROPERTIES TIMEOUT 600 LABELS web
    ENVIRONMENT "PTARMIGAN_TEMPLATE=${web_template};PTARMIGAN_FORMAT_DOCUMENT=${PROJECT_SOURCE_DIR}/docs/formats/html-data.md")
  set_tests_properties(web:browser PROPERTIES SKIP_REGULAR_EXPRESSION "# fail 0[\r\n]+# cancelled 0[\r\n]+# skipped [1-9]")
endif()
