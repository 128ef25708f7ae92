# libantiphon.so: one library of all components for programs of others, target antiphon::antiphon.
include(GNUInstallDirs)

# Until 1.0 a minor version may change the interface.
set(ANTIPHON_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(ANTIPHON_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()

# The library has no objects of its own: it is all components, linked whole.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/shared/library.cc CONTENT "// The components are linked whole.\n")
add_library(antiphon_library SHARED ${CMAKE_BINARY_DIR}/shared/library.cc)
add_library(antiphon::antiphon ALIAS antiphon_library)
antiphon_link(antiphon_library PRIVATE api)
set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_options(antiphon_library PRIVATE LINKER:--version-script=${exports} LINKER:--as-needed
                    LINKER:-z,defs)
target_include_directories(antiphon_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(antiphon_library INTERFACE cxx_std_20)
set_target_properties(antiphon_library PROPERTIES OUTPUT_NAME antiphon EXPORT_NAME antiphon VERSION ${PROJECT_VERSION}
                      SOVERSION ${ANTIPHON_SOVERSION} LINK_DEPENDS ${exports})
