# antiphon_library(NAME LIBS … EXTERNAL … FOLDER folder WITHOUT path…): the static library of src/NAME, or of src/FOLDER,
# globbed, so that adding a component is adding a file; WITHOUT names sources, or folders of them, that it leaves out.
#
# Layers, strategies and kernels register themselves from static initialisers, which a plain static link drops; every
# edge is therefore linked whole. A folder without sources becomes an interface library, so that its edges exist already.
#
# One set of objects serves the program and libantiphon.so: they are position independent, and hidden outside of what
# they are linked into except what antiphon/export.h marks. As what is hidden is called directly, the program loses
# nothing by it.
function(antiphon_library name)
  cmake_parse_arguments(arg "" "FOLDER" "LIBS;EXTERNAL;WITHOUT" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${arg_FOLDER}/*.cc)
  foreach(path ${arg_WITHOUT})
    list(FILTER sources EXCLUDE REGEX "/src/${arg_FOLDER}/${path}")
  endforeach()
  set(target antiphon_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    antiphon_jumbo(${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                          VISIBILITY_INLINES_HIDDEN ON)
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} ${scope} ${arg_EXTERNAL} Threads::Threads)
  antiphon_link(${target} ${scope} ${arg_LIBS})
endfunction()

# With ANTIPHON_JUMBO, as the sanitizers' builds have it, neighbouring sources of a target are one translation unit, so
# that names of a component must differ even where they are local to a file. Kernels that compile themselves once per
# instruction set, and tests that count allocations, stay alone.
function(antiphon_jumbo target)
  if(NOT ANTIPHON_JUMBO)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # Members of types that are local to a file look shared to gcc, as the main file of the unit is another; and gcc 12,
  # which inlines further there, doubts strings in options that are returned by value.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage -Wno-maybe-uninitialized>)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(STRINGS ${source} alone REGEX "foreach_target.h|^void\\* operator new" LIMIT_COUNT 1)
    if(alone)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# Links antiphon libraries whole. Their headers are C++20, whatever the project around them is.
function(antiphon_link target scope)
  target_compile_features(${target} ${scope} cxx_std_20)
  foreach(lib ${ARGN})
    get_target_property(type antiphon_${lib} TYPE)
    if(type STREQUAL "INTERFACE_LIBRARY")
      target_link_libraries(${target} ${scope} antiphon_${lib})
    else()
      target_link_libraries(${target} ${scope} $<LINK_LIBRARY:WHOLE_ARCHIVE,antiphon_${lib}>)
    endif()
  endforeach()
endfunction()

# antiphon_program(NAME SOURCES_FROM folder …): main.cc of the folder becomes the program; the rest becomes the library
# antiphon_NAME_app, so that tests can call the commands.
function(antiphon_program name)
  cmake_parse_arguments(arg "" "SOURCES_FROM" "LIBS;EXTERNAL" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_SOURCES_FROM}/*.cc)
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/${arg_SOURCES_FROM}/main.cc)
  set(commands antiphon_${name}_app)
  add_library(${commands} STATIC ${sources})
  antiphon_jumbo(${commands})
  target_include_directories(${commands} PUBLIC ${PROJECT_SOURCE_DIR}/${arg_SOURCES_FROM})
  target_compile_definitions(${commands} PUBLIC ANTIPHON_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${commands} PUBLIC ${arg_EXTERNAL})
  antiphon_link(${commands} PUBLIC ${arg_LIBS})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/${arg_SOURCES_FROM}/main.cc)
  antiphon_link(${name} PRIVATE ${name}_app)
endfunction()

# antiphon_embed(TARGET file function): a file of text as what `function` (with its namespace) returns, a std::string_view.
function(antiphon_embed target file function)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
  file(READ ${PROJECT_SOURCE_DIR}/${file} text)
  string(REGEX MATCH "^(.*)::([A-Za-z]+)$" parts ${function})
  get_filename_component(name ${file} NAME_WE)
  set(source ${CMAKE_BINARY_DIR}/embedded/${target}_${name}.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"// Made from ${file}.
#include <string_view>
namespace ${CMAKE_MATCH_1} {
std::string_view ${CMAKE_MATCH_2}();
std::string_view ${CMAKE_MATCH_2}() {
  static constexpr char text[] = R\"EMBEDDED(@text@)EMBEDDED\";
  return {text, sizeof(text) - 1};
}
}
")
  target_sources(${target} PRIVATE ${source})
endfunction()
