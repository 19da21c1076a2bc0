(class_declaration name: (identifier) @name body: (_) @body) @def.class
(record_declaration name: (identifier) @name body: (_) @body) @def.class
(interface_declaration name: (identifier) @name body: (_) @body) @def.interface
(annotation_type_declaration name: (identifier) @name body: (_) @body) @def.interface
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(enum_constant name: (identifier) @name) @def.constant
(constructor_declaration name: (identifier) @name body: (_) @body) @def.method
(method_declaration name: (identifier) @name body: (_)? @body) @def.method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @def.field

(import_declaration) @import

(method_invocation !object name: (identifier) @call)
(method_invocation object: (_) @receiver name: (identifier) @call)
(method_reference (identifier) @receiver (identifier) @call)
(object_creation_expression type: (type_identifier) @call)
(object_creation_expression type: (generic_type (type_identifier) @call))
(superclass (type_identifier) @inherit)
(superclass (generic_type (type_identifier) @inherit))
(super_interfaces (type_list (type_identifier) @inherit))
(super_interfaces (type_list (generic_type (type_identifier) @inherit)))
(extends_interfaces (type_list (type_identifier) @inherit))
(extends_interfaces (type_list (generic_type (type_identifier) @inherit)))
(marker_annotation name: (identifier) @type)
(annotation name: (identifier) @type)
(formal_parameter type: (type_identifier) @type)
(field_declaration type: (type_identifier) @type)
(local_variable_declaration type: (type_identifier) @type)
(method_declaration type: (type_identifier) @type)
(generic_type (type_identifier) @type)
(type_arguments (type_identifier) @type)
