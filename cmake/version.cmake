# Writes OUT with the commit of SOURCE; leaves it alone if it says so already.
execute_process(COMMAND git describe --always --dirty --abbrev=10 WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(version unknown)
endif()
set(text "#include \"app/assets.h\"\n\nnamespace tributary::app {\n\nconst std::string_view kVersion = \"${version}\";\n\n}\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
